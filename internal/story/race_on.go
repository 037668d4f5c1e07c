//go:build race

package story

// The race detector looks for data races within a schedule, and makes each ten times as slow. So under it an
// exploration has two clients.
const raceDetector = true
