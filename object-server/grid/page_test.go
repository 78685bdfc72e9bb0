package grid

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"martlet/object-server/proof"
)

const page = "../../doc/formats/grid.md"

func TestTheKindsOfRefusalAreThoseOfThePage(t *testing.T) {
	var kinds []Refusal
	for _, row := range proof.Table(t, page, "### Kinds of refusal") {
		kinds = append(kinds, Refusal(strings.Trim(row[0], "`")))
	}
	if !slices.Equal(kinds, Refusals[:]) {
		t.Errorf("on the page: %q, counted: %q", kinds, Refusals)
	}
}

func TestTheCodesAreThoseOfThePage(t *testing.T) {
	rows := proof.Table(t, page, "## Requests")
	if len(rows) != len(codeNames) {
		t.Errorf("%d codes on the page, %d here", len(rows), len(codeNames))
	}
	for i, row := range rows {
		if code := Code(i + 1); row[0] != fmt.Sprint(i+1) || row[1] != code.String() {
			t.Errorf("code %s, %s on the page; %d, %s here", row[0], row[1], i+1, code)
		}
	}
}
