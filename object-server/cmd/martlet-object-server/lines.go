package main

import (
	"context"
	"io"
	"log/slog"
	"os"
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

// newLogger returns a logger whose lines wait in l, except warnings and errors. Lines of JSON have the keys of the Python
// services: time, level, logger, pid, message and trans_id.
func newLogger(l *lines, level slog.Leveler, isJSON bool) *slog.Logger {
	if !isJSON {
		return slog.New(promptHandler{slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}), l})
	}
	handler := slog.NewJSONHandler(l, &slog.HandlerOptions{Level: level, ReplaceAttr: asInPython})
	return slog.New(promptHandler{handler, l}).With("logger", "martlet-object-server", "pid", os.Getpid())
}

// asInPython gives what both languages log the same name and form.
func asInPython(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			return slog.String(a.Key, a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
		}
	case slog.MessageKey:
		a.Key = "message"
	case "txn":
		a.Key = "trans_id"
	case slog.LevelKey:
		if a.Value.Any() == slog.LevelWarn {
			return slog.String(a.Key, "WARNING")
		}
	}
	return a
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
