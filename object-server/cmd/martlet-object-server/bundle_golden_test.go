package main

import (
	"path/filepath"
	"testing"

	"martlet/object-server/proof"
)

const goldenBundles = "../../../test/golden/bundle"

// The JSON of the golden bundles is for programs, so it stays what it is.
func TestGoldenJSON(t *testing.T) {
	for name, segment := range map[string]string{
		"records": "00000001-0000.bundle", "sealed": "sealed/00000003-0000.bundle", "versions": "versions/00000001-0000.bundle",
	} {
		for _, command := range []string{"ls", "dump"} {
			got := expect(t, 0, nil, command, "--json", filepath.Join(goldenBundles, segment))
			proof.Golden(t, filepath.Join(goldenBundles, "json", name+"."+command), []byte(got))
		}
	}
}
