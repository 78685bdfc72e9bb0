package background

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Class is an I/O class of ioprio_set(2), by the name that OpenStack Swift uses.
type Class string

// The I/O classes. A disk serves Idle only while no other process wants it. The scheduler none ignores all of them.
const (
	RealTime   Class = "IOPRIO_CLASS_RT"
	BestEffort Class = "IOPRIO_CLASS_BE"
	Idle       Class = "IOPRIO_CLASS_IDLE"
	Unchanged  Class = "" // the one that the process was started with
)

var classNumbers = map[Class]int{RealTime: 1, BestEffort: 2, Idle: 3}

// Priority is that of a process.
type Priority struct {
	Nice  int // as in setpriority(2): -20 to 19
	Class Class
	Level int // 0 to 7 within RealTime and BestEffort, 0 is the highest
}

// SetClass sets the class by its name.
func (p *Priority) SetClass(name string) error {
	class := Class(strings.ToUpper(name))
	if _, ok := classNumbers[class]; !ok && class != Unchanged {
		return fmt.Errorf("must be empty, %s, %s or %s", RealTime, BestEffort, Idle)
	}
	p.Class = class
	return nil
}

const (
	ioprioShift      = 13
	ioprioWhoProcess = 1
)

// done is the environment variable that says that the process has its priority.
const done = "MARTLET_PRIORITY_IS_SET"

// The kernel keeps for each thread which signal it gets when the parent dies, and only that of the first one was set. So the
// goroutine of main, which calls Apply, stays on that thread.
func init() { runtime.LockOSThread() }

// Apply gives the priority to all threads of the process. Both priorities belong to a thread, and new threads inherit them.
// But the runtime has started threads before main. So the process starts itself again, from a thread that has them. It does
// not return then. Only the goroutine of main may call it.
func Apply(p Priority) error {
	if os.Getenv(done) != "" {
		return os.Unsetenv(done)
	}
	if unix.Gettid() != os.Getpid() {
		return errors.New("the priority is set by another thread than the first one")
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice); err != nil {
		return fmt.Errorf("nice_priority %d: %w", p.Nice, err)
	}
	if p.Class != Unchanged {
		value := classNumbers[p.Class]<<ioprioShift | p.Level
		if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, uintptr(value)); errno != 0 {
			return fmt.Errorf("ionice_class %s, ionice_priority %d: %w", p.Class, p.Level, errno)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(program, os.Args, append(os.Environ(), done+"=1"))
}
