package proof

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Halt stops this process for so long, at least, with SIGSTOP. All its goroutines stand still, and what they wait for goes on.
func Halt(t testing.TB, d time.Duration) {
	t.Helper()
	script := fmt.Sprintf("kill -STOP %d; sleep %f; kill -CONT %d", os.Getpid(), d.Seconds(), os.Getpid())
	if err := exec.Command("sh", "-c", script).Run(); err != nil {
		t.Fatal(err)
	}
}
