// Package firstthread sets what the kernel keeps for each thread, for all threads of the process.
//
// New threads inherit it. But the runtime of Go has started threads before main. So the process starts itself again,
// from a thread that has it.
package firstthread

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// done is the environment variable that says that all threads have it.
const done = "MARTLET_THREADS_ARE_SET"

// The kernel keeps for each thread which signal it gets when the parent dies, and only that of the first one was set. So the
// goroutine of main, which calls Restart, stays on that thread.
func init() { runtime.LockOSThread() }

// Restart calls set in the first thread and starts the program again. It does not return then. In the new program it
// returns nil. Only the goroutine of main may call it, before it has started others or opened files.
func Restart(set func() error) error {
	if os.Getenv(done) != "" {
		return os.Unsetenv(done)
	}
	if unix.Gettid() != os.Getpid() {
		return errors.New("another thread than the first one would be set")
	}
	if err := set(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(program, os.Args, append(os.Environ(), done+"=1"))
}
