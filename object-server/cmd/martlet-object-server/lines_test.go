package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// writes keeps what each write had.
type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func (w *writes) counts() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var counts []int
	for _, text := range w.all {
		counts = append(counts, strings.Count(text, "\n"))
	}
	return counts
}

func TestLinesGoTogetherAndWarningsAtOnce(t *testing.T) {
	var out writes
	var due []func()
	l := newLines(&out)
	l.afterFunc = func(wait time.Duration, f func()) {
		if wait != linesWait {
			t.Errorf("a line waits for %v", wait)
		}
		due = append(due, f)
	}
	logger := newLogger(l, slog.LevelInfo, false).With("server", "s")
	for range 3 {
		logger.Info("request")
	}
	if len(out.counts()) != 0 || len(due) != 1 {
		t.Fatalf("%d writes, %d timers", len(out.counts()), len(due))
	}
	due[0]()
	logger.WithGroup("g").Info("request", "a", 1)
	logger.Warn("warning")
	logger.Error("error")
	due[1]() // nothing waits any more
	if counts := out.counts(); len(counts) != 3 || counts[0] != 3 || counts[1] != 2 || counts[2] != 1 {
		t.Fatalf("lines of each write: %v", counts)
	}
	if !strings.Contains(out.all[1], "server=s g.a=1") {
		t.Error(out.all[1])
	}
}

func TestLinesThatWaitAreBounded(t *testing.T) {
	var out writes
	l := newLines(&out)
	l.afterFunc = func(time.Duration, func()) {}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range linesMax / len(line) {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if counts := out.counts(); len(counts) != 1 || counts[0] != linesMax/len(line) {
		t.Fatalf("lines of each write: %v", counts)
	}
}

func TestLinesComeInTimeByThemselves(t *testing.T) {
	arrived := make(chan string, 1)
	logger := newLogger(newLines(writerFunc(func(p []byte) (int, error) {
		arrived <- string(p)
		return len(p), nil
	})), slog.LevelInfo, false)
	logger.Info("request")
	select {
	case text := <-arrived:
		if !strings.Contains(text, "request") {
			t.Error(text)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the line did not come")
	}
}

func TestLinesOfJSONHaveTheKeysOfPython(t *testing.T) {
	var out bytes.Buffer
	l := newLines(&out)
	logger := newLogger(l, slog.LevelInfo, true)
	logger.Info("request", "txn", "tx1", "path", "/a/\"b\nc", "time", "noon")
	logger.Warn("careful", "error", errors.New("no room"))
	l.flush()
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 2 {
		t.Fatal(out.String())
	}
	wanted := []map[string]any{
		{"level": "INFO", "message": "request", "trans_id": "tx1", "path": "/a/\"b\nc", "time": "noon"},
		{"level": "WARNING", "message": "careful", "error": "no room"},
	}
	for i, row := range rows {
		var found map[string]any
		if err := json.Unmarshal([]byte(row), &found); err != nil {
			t.Fatal(row, err)
		}
		wanted[i]["logger"], wanted[i]["pid"] = "martlet-object-server", float64(os.Getpid())
		for key, value := range wanted[i] {
			if found[key] != value {
				t.Errorf("%s is %v, want %v", key, found[key], value)
			}
		}
	}
	if !regexp.MustCompile(`^{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",`).MatchString(rows[1]) {
		t.Error(rows[1])
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
