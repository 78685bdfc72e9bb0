package proof

import (
	"bytes"
	"sync"
)

// Log is a log that a test may read while others write it.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends lines.
func (l *Log) Write(lines []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(lines)
}

// String returns what was written until now.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
