//go:build !race

package sim

const RaceDetector = false
