package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// record is what a story leaves behind when it is told with one lock: the part of story.Record that is used here.
type record struct {
	Folder, Test, Lock          string
	Claim, Verdict, Why         string
	Timeline, Coloured, Mermaid string
}

func (r record) breaks() bool { return r.Verdict != "holds" }

// records is what one run of the tests has recorded.
type records struct {
	book *book
	all  []record
}

// recordStories runs the stories of some chapters, and only the stories: neither explorations nor real servers.
func recordStories(b *book, chapters []chapter) (*records, error) {
	dir, err := os.MkdirTemp("", "redislock-gen-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var names []string
	args := []string{"test", "-count=1", "-run", ""}
	for _, ch := range chapters {
		for _, t := range ch.tests {
			names = append(names, t.name)
		}
		args = append(args, "./"+ch.dir)
	}
	args[3] = "^(" + strings.Join(names, "|") + ")$"

	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), "REDISLOCK_RECORD="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	done := progress("telling the stories; the first time this compiles for a while ...")
	err = cmd.Run()
	done()
	if err != nil {
		return nil, fmt.Errorf("%s\nthe stories don't come out as declared, so there is nothing to tell: see above, or run make test", out.Bytes())
	}
	return loadRecords(b, dir)
}

// progress says on a terminal what takes so long, and takes the line back in the end.
func progress(text string) (done func()) {
	if !terminal(os.Stderr) {
		return func() {}
	}
	fmt.Fprint(os.Stderr, text)
	return func() { fmt.Fprint(os.Stderr, "\r\x1b[K") }
}

func loadRecords(b *book, dir string) (*records, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	rs := &records{book: b}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		rs.all = append(rs.all, r)
	}
	return rs, nil
}

// home is the folder whose telling of a story counts: this one if it has the test, else the first that has it.
func (rs *records) home(test, folder string) (chapter, storyTest, error) {
	var found *chapter
	for i, ch := range rs.book.chapters {
		if _, ok := ch.test(test); ok && (found == nil || ch.dir == folder) {
			found = &rs.book.chapters[i]
		}
	}
	if found == nil {
		return chapter{}, storyTest{}, fmt.Errorf("no chapter has a story test %s", test)
	}
	t, _ := found.test(test)
	return *found, t, nil
}

// find is the record of a story with the lock of one chapter ("02").
func (rs *records) find(test, folder, lock string) (record, error) {
	home, _, err := rs.home(test, folder)
	if err != nil {
		return record{}, err
	}
	var known []string
	for _, r := range rs.all {
		if r.Folder != home.dir || r.Test != test {
			continue
		}
		if r.Lock[:2] == lock {
			return r, nil
		}
		known = append(known, r.Lock[:2])
	}
	return record{}, fmt.Errorf("%s is not told with lock %q, only with %s", test, lock, strings.Join(known, ", "))
}

// locks are the folder names of all locks that stories were told with, oldest first.
func (rs *records) locks() []string {
	var all []string
	for _, r := range rs.all {
		all = append(all, r.Lock)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// broken is the newest lock before a chapter's own that breaks in this story.
func (rs *records) broken(test string, ch chapter) (record, bool) {
	locks := rs.locks()
	slices.Reverse(locks)
	for _, lock := range locks {
		if lock >= ch.dir {
			continue
		}
		if r, err := rs.find(test, ch.dir, lock[:2]); err == nil && r.breaks() {
			return r, true
		}
	}
	return record{}, false
}
