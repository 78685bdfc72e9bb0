package format

import (
	"encoding/binary"
	"os"
	"testing"

	"martlet/object-server/proof"
)

const goldenFile = "../../../test/golden/bundle/00000001-0000.bundle"

func readGolden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenFile)
	check(t, err)
	return b
}

var check = proof.Check

// repair makes the checksum of a header right, so that fuzzing gets past it.
func repair(b []byte) {
	if len(b) >= HeaderSize {
		binary.LittleEndian.PutUint32(b[124:], Checksum(b[:124]))
	}
}
