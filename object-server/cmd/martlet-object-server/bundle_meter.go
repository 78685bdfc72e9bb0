package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/vfs"
)

// meter is a file system that counts the bytes read, and limits their rate.
type meter struct {
	vfs.Paced
	rate  int64 // bytes a second; 0: no limit
	start time.Time
	read  atomic.Int64

	mu    sync.Mutex
	drawn io.Writer // the terminal with a bar on it; nil: none
}

func newMeter(files vfs.FS) *meter {
	m := &meter{start: time.Now()}
	m.Paced = vfs.Paced{FS: files, Read: m.pace}
	return m
}

// pace sleeps to keep the rate.
func (m *meter) pace(bytes int) {
	total := m.read.Add(int64(bytes))
	if m.rate > 0 {
		due := time.Duration(float64(total) / float64(m.rate) * float64(time.Second))
		time.Sleep(due - time.Since(m.start))
	}
}

// progress draws a bar on a terminal until stop is called.
func (m *meter) progress(w io.Writer, total int64) (stop func()) {
	if !isTerminal(w) {
		return func() {}
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				m.clear()
				return
			case <-tick.C:
				m.mu.Lock()
				fmt.Fprintf(w, "\r%-78s", bar(m.read.Load(), total, time.Since(m.start)))
				m.drawn = w
				m.mu.Unlock()
			}
		}
	}()
	return func() { close(done); <-stopped }
}

// clear removes the bar, so that a line can be written.
func (m *meter) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drawn != nil {
		fmt.Fprintf(m.drawn, "\r%s\r", strings.Repeat(" ", 78))
		m.drawn = nil
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// bar is the progress in one line. Bytes that are read twice may exceed the total.
func bar(read, total int64, elapsed time.Duration) string {
	const width = 24
	share := min(float64(read)/float64(max(total, 1)), 1)
	full := int(share * width)
	rate := float64(read) / max(elapsed.Seconds(), 0.001)
	left := time.Duration(float64(max(total-read, 0)) / max(rate, 1) * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("[%s%s] %3.0f%%  %s of %s  %s/s  %s left", strings.Repeat("#", full), strings.Repeat(".", width-full),
		share*100, size(read), size(total), size(int64(rate)), left)
}

// size in bytes, in the largest unit that leaves at least one.
func size(bytes int64) string {
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < 5 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[unit-1])
}
