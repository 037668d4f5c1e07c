//go:build race

package sim

// RaceDetector says whether this binary looks for data races. That makes everything in a world some ten times as slow, and
// it looks at one run at a time: a test that runs the same thing many times runs it less often then.
const RaceDetector = true
