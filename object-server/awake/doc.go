// Package awake has a clock that stands still while the process does: after SIGSTOP, while its virtual machine is paused,
// while its laptop sleeps. A disk is judged by this clock. A process that was halted could not take the answers of disks
// back, so that time says nothing about them.
//
// A goroutine notes every tenth of a second that the process runs. Of a longer gap between two notes, a quarter of a second
// counts. The clock is slow where the machine is too busy to run that goroutine: then disks are given more time.
//
// The clock is not for deadlines that others know of, such as those of clients, peers and locks. The package knows
// nothing of disks, and imports no other.
package awake
