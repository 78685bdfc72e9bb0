package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// linesWait is how long a line may wait for others. A crash of the process loses the lines of this time.
	linesWait = 100 * time.Millisecond
	// linesMax is how many bytes wait at most.
	linesMax = 64 << 10
)

// lines joins the lines of the log into few writes: a busy server writes thousands of lines a second, one for each
// request. Safe for concurrent use.
type lines struct {
	out io.Writer

	mu        sync.Mutex
	waiting   []byte
	isTimed   bool // flush will be called
	afterFunc func(time.Duration, func())
}

func newLines(out io.Writer) *lines {
	return &lines{out: out, afterFunc: func(wait time.Duration, f func()) { time.AfterFunc(wait, f) }}
}

// Write implements io.Writer. An error of the output is not known yet.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, line...)
	switch {
	case len(l.waiting) >= linesMax:
		l.write()
	case !l.isTimed:
		l.isTimed = true
		l.afterFunc(linesWait, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.isTimed = false
			l.write()
		})
	}
	return len(line), nil
}

// flush writes the lines that wait.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
}

func (l *lines) write() {
	if len(l.waiting) > 0 {
		_, _ = l.out.Write(l.waiting) // a log that cannot be written stops no server
		l.waiting = l.waiting[:0]
	}
}

// promptHandler writes warnings and errors at once, with the lines before them.
type promptHandler struct {
	slog.Handler

	lines *lines
}

// newLogger returns a logger whose lines wait in l, except warnings and errors.
func newLogger(l *lines, level slog.Leveler) *slog.Logger {
	return slog.New(promptHandler{slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}), l})
}

// Handle implements slog.Handler.
func (h promptHandler) Handle(ctx context.Context, record slog.Record) error {
	err := h.Handler.Handle(ctx, record)
	if record.Level >= slog.LevelWarn {
		h.lines.flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h promptHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return promptHandler{h.Handler.WithAttrs(attributes), h.lines}
}

// WithGroup implements slog.Handler.
func (h promptHandler) WithGroup(name string) slog.Handler {
	return promptHandler{h.Handler.WithGroup(name), h.lines}
}
