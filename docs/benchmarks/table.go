package main

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// table is what an experiment has found.
type table struct {
	head    []string
	rows    [][]string
	budgets [][]string
	notes   []string
	words   bool // the cells are words, and no figures
}

// add adds a row: its first cell, and then a format and a figure for each of the others.
func (t *table) add(first string, cells ...any) {
	row := []string{first}
	for i := 0; i < len(cells); i += 2 {
		row = append(row, fmt.Sprintf(cells[i].(string), cells[i+1]))
	}
	t.rows = append(t.rows, row)
}

// budget compares a ratio with what it may be, as precisely as it is printed.
func (t *table) budget(what string, is, atMost float64) {
	verdict := "within"
	if math.Round(100*is) > math.Round(100*atMost) {
		verdict = "over"
	}
	t.budgets = append(t.budgets, []string{what, fmt.Sprintf("%.2f", is), fmt.Sprintf("%.2f", atMost), verdict})
}

func (t *table) notef(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// failed notes calls that have failed, mostly because the machine stood still for longer than a time limit.
func (t *table) failed(what string, n, of float64) {
	if n > 0 {
		t.notef("%s failed in %.0f of %.0f.", what, n, of)
	}
}

// String is Markdown that can be read in a terminal too.
func (t table) String() string {
	parts := []string{grid(t.head, t.rows, t.words)}
	if t.notes != nil {
		parts = append(parts, strings.Join(t.notes, " ")+"\n")
	}
	if t.budgets != nil {
		parts = append(parts, grid([]string{"budget", "is", "may be", ""}, t.budgets, false))
	}
	return strings.Join(parts, "\n")
}

func grid(head []string, rows [][]string, words bool) string {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
	}
	line(head)
	for i, w := range widths {
		b.WriteString("| " + strings.Repeat("-", w-1) + map[bool]string{true: "-", false: ":"}[i == 0 || words] + " ")
	}
	b.WriteString("|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}
