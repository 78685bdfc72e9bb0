package proof

import (
	"os"
	"strings"
	"testing"
)

// Table reads the cells of the first table behind a text on a page, without its head.
func Table(t testing.TB, page, after string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	Check(t, err)
	_, rest, _ := strings.Cut(string(text), after)
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("%s has no table behind %q", page, after)
	}
	return rows[2:]
}
