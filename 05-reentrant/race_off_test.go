//go:build !race

package reentrant_test

const raceDetector = false
