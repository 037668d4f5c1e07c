//go:build race

package sim

// The race detector makes each schedule ten times as slow, so under it there are fewer of them.
const raceDetector = true
