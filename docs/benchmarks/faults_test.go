package main

import (
	"strings"
	"testing"
	"time"

	"example.com/redislock/internal/redistest"
)

// The chapters' own cells are what their pages promise. What takes longer than a moment is not tried here.
func TestFaultsOfTheChapters(t *testing.T) {
	redistest.Start(t) // skips or fails
	want := map[string]string{
		"1": "held", "3": "0.2 s", "4": "0.2 s", "5": "freed", "6": "freed", "7": "two errors",
	}
	for _, tr := range trials {
		number, _, _ := strings.Cut(tr.name, ".")
		for _, s := range subjects {
			ours := s.name < "1"
			if want[number] == "" || !ours || tr.nodes > 1 && !s.several {
				continue
			}
			t.Run(tr.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				got := tr.try(prepare(t, tr, s))
				took, err := time.ParseDuration(strings.ReplaceAll(got, " ", ""))
				if timed := err == nil; got != want[number] && (!timed || took > time.Second) {
					t.Errorf("%s, not %s", got, want[number])
				}
			})
		}
	}
}
