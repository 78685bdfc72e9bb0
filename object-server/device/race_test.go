//go:build race

package device

// raceDetector thins the crash and fault tests out: they are single-threaded
// for the most part, and many times slower with the detector.
const raceDetector = true
