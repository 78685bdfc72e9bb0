package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

const goldenBundles = "../../../test/golden/bundle"

// The JSON of the golden bundles is for programs, so it stays what it is.
func TestGoldenJSON(t *testing.T) {
	for name, segment := range map[string]string{
		"records": "00000001-0000.bundle", "sealed": "sealed/00000003-0000.bundle", "versions": "versions/00000001-0000.bundle",
	} {
		for _, command := range []string{"ls", "dump"} {
			got := expect(t, 0, nil, command, "--json", filepath.Join(goldenBundles, segment))
			golden := filepath.Join(goldenBundles, "json", name+"."+command)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := readFile(t, golden); got != want {
				t.Errorf("%s; now:\n%s", golden, got)
			}
		}
	}
}
