package proof

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// update has the golden files written before they are compared.
var update = flag.Bool("update", false, "write the golden files anew")

// Golden fails if a golden file differs from what the code encodes now. With the flag -update it writes the file first.
func Golden(t testing.TB, path string, now []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(path, now, 0o644); err != nil {
			t.Fatalf("%v", err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if bytes.Equal(now, want) {
		return
	}
	text := string(now)
	if !utf8.Valid(now) {
		text = hex.Dump(now)
	}
	t.Errorf("%s differs; -update writes it anew. Now it is:\n%s", path, text)
}

// GoldenJSON is Golden for a value as indented JSON.
func GoldenJSON(t testing.TB, path string, value any) {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatalf("%v", err)
	}
	Golden(t, path, append(text, '\n'))
}
