package firstthread

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMain lets the tests start this program again, with another nice value.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_RESTART") == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(done) == "" {
		migrate()
	}
	if err := Restart(func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 7) }); err != nil {
		panic(err)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	fmt.Println(20-nice, err, os.Getenv(done) == "", unix.Gettid() == os.Getpid(), deathSignal())
}

// migrate lets the scheduler of Go move this goroutine to another thread than the first one of the process.
func migrate() {
	for range 8 {
		go func() {
			for {
				runtime.Gosched()
			}
		}()
	}
	for range 2_000 {
		if runtime.Gosched(); unix.Gettid() != os.Getpid() {
			return
		}
	}
}

// deathSignal is the signal that this process gets when its parent dies.
func deathSignal() syscall.Signal {
	var number int
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&number)), 0, 0, 0); err != nil {
		panic(err)
	}
	return syscall.Signal(number)
}

// A supervisor's death still ends the process: the kernel keeps that signal for each thread, and a thread that calls exec
// brings its own.
func TestRestartKeepsTheDeathSignal(t *testing.T) {
	runtime.LockOSThread() // the signal comes when this thread ends
	defer runtime.UnlockOSThread()
	for range 5 {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "TEST_RESTART=1")
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if want := fmt.Sprintln(7, nil, true, true, syscall.SIGKILL); string(out) != want {
			t.Fatalf("the process has %q, not %q", out, want)
		}
	}
}
