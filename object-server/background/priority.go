package background

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"martlet/object-server/firstthread"
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

// Apply gives the priority to all threads of the process. Both priorities belong to a thread, so the process starts itself
// again. It does not return then. Only the goroutine of main may call it.
func Apply(p Priority) error { return firstthread.Restart(p.set) }

// set gives the priority to the calling thread.
func (p Priority) set() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice); err != nil {
		return fmt.Errorf("nice_priority %d: %w", p.Nice, err)
	}
	if p.Class != Unchanged {
		value := classNumbers[p.Class]<<ioprioShift | p.Level
		if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, uintptr(value)); errno != 0 {
			return fmt.Errorf("ionice_class %s, ionice_priority %d: %w", p.Class, p.Level, errno)
		}
	}
	return nil
}
