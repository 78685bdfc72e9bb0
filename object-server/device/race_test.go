//go:build race

package device

import "flag"

// raceDetector thins the crash and fault tests out: they are single-threaded
// for the most part, and many times slower with the detector.
const raceDetector = true

// The models of rapid, too: a quarter of their sequences. `make go-test` runs all of them without
// the detector.
func init() {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
