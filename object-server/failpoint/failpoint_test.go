package failpoint

import (
	"os"
	"os/exec"
	"testing"
)

// passing says, in the environment of a process, that it is to reach a point
// three times.
const passing = "MARTLET_FAILPOINT_PASSING"

func TestMain(m *testing.M) {
	if os.Getenv(passing) != "" {
		for range 3 {
			Hit(Flushed)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestHit(t *testing.T) {
	for value, want := range map[string]string{
		"":                             "exit status 0",
		"flushed=kill":                 "signal: killed",
		"flushed=kill@3":               "signal: killed",
		"flushed=kill@4":               "exit status 0",
		"appended=kill":                "exit status 0",
		"appended=kill,flushed=kill@2": "signal: killed",
		"misspelt=kill":                "exit status 2",
		"flushed=panic":                "exit status 2",
		"flushed=kill@0":               "exit status 2",
		"flushed":                      "exit status 2",
	} {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), passing+"=1", Environment+"="+value)
		_ = process.Run() // its state is what counts
		if got := process.ProcessState.String(); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
