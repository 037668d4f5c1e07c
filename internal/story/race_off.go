//go:build !race

package story

const raceDetector = false
