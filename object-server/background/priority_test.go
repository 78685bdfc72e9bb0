package background

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the test below start this program as a process of background work.
func TestMain(m *testing.M) {
	if text := os.Getenv("TEST_PRIORITY"); text != "" {
		var p Priority
		var class string
		if _, err := fmt.Sscan(text, &p.Nice, &class, &p.Level); err != nil || p.SetClass(class) != nil {
			panic(text)
		}
		if err := Apply(p); err != nil {
			panic(err)
		}
		printThreads()
		return
	}
	os.Exit(m.Run())
}

// printThreads prints the priorities of each thread of this process, while some of them work.
func printThreads() {
	var begun, end sync.WaitGroup
	end.Add(1)
	for range 4 {
		begun.Add(1)
		go func() {
			runtime.LockOSThread()
			begun.Done()
			end.Wait()
		}()
	}
	begun.Wait()
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, id)
		io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioWhoProcess, uintptr(id), 0)
		fmt.Println(20-nice, io>>ioprioShift, io&7, err, errno)
	}
	end.Done()
}

// All threads of the process have the priority, also those that the runtime starts before main.
func TestApply(t *testing.T) {
	for text, want := range map[string]string{
		"19 IOPRIO_CLASS_IDLE 7": "19 3 7 <nil> errno 0",
		"7 ioprio_class_be 5":    "7 2 5 <nil> errno 0",
	} {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "TEST_PRIORITY="+text)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) < 5 {
			t.Errorf("only %d threads", len(lines))
		}
		for _, line := range lines {
			if line != want {
				t.Errorf("a thread has %q, not %q", line, want)
			}
		}
	}
}

func TestUnknownClass(t *testing.T) {
	var p Priority
	if err := p.SetClass("IOPRIO_CLASS_FAST"); err == nil {
		t.Error("it was taken")
	}
	if err := p.SetClass(""); err != nil {
		t.Error(err)
	}
}
