//go:build !race

package monitor_test

const raceDetector = false
