package main

import "strings"

// walk is a tour on its way.
type walk struct {
	*paper
	book *book
	told *records
	stop map[string]bool // chapters that this walk comes by
}

// tour tells the stories of the chapters, each lock that breaks followed by the one that holds.
func tour(b *book, numbers []string, p *paper) error {
	w := &walk{paper: p, book: b, stop: map[string]bool{}}
	var route []chapter
	for _, number := range numbers {
		i, err := b.byNumber(number)
		if err != nil {
			return err
		}
		w.stop[b.chapters[i].dir] = true
	}
	for _, ch := range b.chapters {
		if len(numbers) == 0 {
			w.stop[ch.dir] = true
		}
		if w.stop[ch.dir] {
			route = append(route, ch)
		}
	}
	var err error
	if w.told, err = recordStories(b, route); err != nil {
		return err
	}
	for _, ch := range route {
		w.heading(ch)
		if err := w.chapter(ch); err != nil {
			return err
		}
	}
	w.whereNext(route[len(route)-1])
	return nil
}

// stories tells one chapter's stories and nothing around them.
func stories(b *book, ch chapter, p *paper) error {
	told, err := recordStories(b, []chapter{ch})
	if err != nil {
		return err
	}
	w := &walk{paper: p, book: b, told: told}
	return w.chapter(ch)
}

const rule = 96 // as wide as a timeline

// heading says which chapter this is, and how far the walk has come.
func (w *walk) heading(ch chapter) {
	i, _ := w.book.byNumber(ch.number) // it is one of them
	n := len(w.book.chapters)
	const barWidth = 42
	done := barWidth * (i + 1) / n
	w.print("%s\n", w.in(bold, strings.Repeat("━", rule)))
	w.print("%s", w.in(bold, wrap(ch.number+" · "+ch.title, "")))
	w.print("%s  chapter %d of %d  %s%s\n\n", ch.dir, i+1, n, w.in(green, strings.Repeat("█", done)), strings.Repeat("░", barWidth-done))
}

// chapter tells what the chapter mends, and then what it can't do.
func (w *walk) chapter(ch chapter) error {
	limits := false
	for _, t := range ch.tests {
		if t.limit && !limits {
			limits = true
			w.print("%s\n\n", w.in(bold, "── What "+ch.number+" still can't do "+strings.Repeat("─", rule-25)))
		}
		tell := w.mended
		if t.limit {
			tell = w.limit
		}
		if err := tell(ch, t); err != nil {
			return err
		}
	}
	return nil
}

// mended shows the lock that breaks, and then this chapter's.
func (w *walk) mended(ch chapter, t storyTest) error {
	own, err := w.told.find(t.name, ch.dir, ch.number)
	if err != nil {
		return err
	}
	w.title(t, own.Claim)
	if old, ok := w.told.broken(t.name, ch); ok {
		w.timeline(old)
	}
	w.timeline(own)
	return nil
}

// limit shows how this chapter's own lock breaks. If the next stop mends it, the timeline stands there, right before
// that of the lock that holds, and here only what came of it.
func (w *walk) limit(ch chapter, t storyTest) error {
	own, err := w.told.find(t.name, ch.dir, ch.number)
	if err != nil {
		return err
	}
	w.title(t, own.Claim)
	i, _ := w.book.byNumber(ch.number)
	if i+1 < len(w.book.chapters) {
		next := w.book.chapters[i+1]
		again, ok := next.test(t.name)
		if w.stop[next.dir] && ok && !again.limit {
			w.print("%s", w.in(red, wrap(own.Verdict+": "+own.Why, "  ")))
			w.print("%s\n", wrap("Chapter "+next.number+" shows how, and mends it.", "  "))
			return nil
		}
	}
	w.timeline(own)
	return nil
}

func (w *walk) title(t storyTest, claim string) {
	w.print("%s\n%s\n", w.in(bold, spell(t.name)), wrap(claim, "  "))
}

func (w *walk) timeline(r record) {
	label := w.in(green, "── "+r.Lock+" holds")
	if r.breaks() {
		label = w.in(red, "── "+r.Lock+" breaks")
	}
	text := r.Timeline
	if w.colour {
		text = r.Coloured
	}
	w.print("%s\n\n%s\n", label, text)
}

// whereNext ends the tour with things to type.
func (w *walk) whereNext(last chapter) {
	w.print("%s\n%s\n", w.in(bold, strings.Repeat("━", rule)), w.in(bold, "Where next"))
	before := w.book.before(last)
	lines := [][2]string{
		{"go test -v ./" + last.dir, "all tests of this chapter, with every timeline"},
		{"make break CH=" + last.number, "judge lock " + before + " by this chapter's tests, and see it FAIL"},
	}
	if before != "00" {
		lines = append(lines, [2]string{"make diff CH=" + last.number, "what mended it: the change in lock.go"})
	}
	i, _ := w.book.byNumber(last.number)
	if i+1 < len(w.book.chapters) {
		lines = append(lines, [2]string{"make tour CH=" + w.book.chapters[i+1].number, "the next chapter of this walk"})
	}
	for _, line := range lines {
		w.print("  %s %s\n", w.in(cyan, line[0]+strings.Repeat(" ", max(0, 32-len(line[0])))), line[1])
	}
}
