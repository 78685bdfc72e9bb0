package background

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

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
		if os.Getenv("TEST_MIGRATE") != "" && os.Getenv(done) == "" {
			migrate()
		}
		if err := Apply(p); err != nil {
			panic(err)
		}
		if os.Getenv("TEST_MIGRATE") != "" {
			printDeathSignal()
			return
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
		fmt.Println(20-nice, io>>ioprioShift, io&7, err, errno, os.Getenv(done) == "")
	}
	end.Done()
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

// printDeathSignal prints the signal that this process gets when its parent dies.
func printDeathSignal() {
	var number int
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&number)), 0, 0, 0); err != nil {
		panic(err)
	}
	fmt.Println(unix.Gettid() == os.Getpid(), number)
}

// A supervisor's death still ends the process: the kernel keeps that signal for each thread, and a thread that calls exec
// brings its own.
func TestApplyKeepsTheDeathSignal(t *testing.T) {
	runtime.LockOSThread() // the signal comes when this thread ends
	defer runtime.UnlockOSThread()
	for range 5 {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), "TEST_PRIORITY=19 IOPRIO_CLASS_IDLE 7", "TEST_MIGRATE=1")
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if want := fmt.Sprintln(true, int(syscall.SIGKILL)); string(out) != want {
			t.Fatalf("the process has %q, not %q", out, want)
		}
	}
}

// All threads of the process have the priority, also those that the runtime starts before main.
func TestApply(t *testing.T) {
	for text, want := range map[string]string{
		"19 IOPRIO_CLASS_IDLE 7": "19 3 7 <nil> errno 0 true",
		"7 ioprio_class_be 5":    "7 2 5 <nil> errno 0 true",
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
