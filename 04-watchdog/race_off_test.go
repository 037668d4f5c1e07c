//go:build !race

package watchdog_test

const raceDetector = false
