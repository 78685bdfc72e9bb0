package format

import (
	"encoding/binary"
	"os"
	"testing"
)

const goldenFile = "../../../test/golden/bundle/00000001-0000.bundle"

func readGolden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenFile)
	check(t, err)
	return b
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repair makes the checksum of a header right, so that fuzzing gets past it.
func repair(b []byte) {
	if len(b) >= HeaderSize {
		binary.LittleEndian.PutUint32(b[124:], Checksum(b[:124]))
	}
}
