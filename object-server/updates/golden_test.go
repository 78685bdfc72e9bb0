package updates

import (
	"cmp"
	"encoding/hex"
	"reflect"
	"slices"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/proof"
)

const goldenDir = "../../test/golden/grid/"

// goldenPayload is a payload as it is written; test/unit/container/test_grid_golden.py reads the same files.
type goldenPayload struct {
	Name     string `json:"name"`
	Elements any    `json:"elements"`
	Hex      string `json:"hex"`
}

func goldenRequests() map[string][]byte {
	first, second := "1700000001.00000", "1700000002.00000_0000000000000001"
	target := Target{Host: "h", Device: "sdb1", Partition: "4294967295", Account: "AUTH_ä", Container: "c c", PolicyIndex: 1}
	rows := []Row{
		{Name: "o", CreatedAt: "1700000000.00000", Size: 4096, ContentType: "text/plain", ETag: "e", PolicyIndex: 1},
		DeletedRow("größe/\n", "1700000003.00000", 1),
		{Name: "t", CreatedAt: "1700000000.00000", ContentType: "a/b", ETag: "e", PolicyIndex: 1, ContentTypeTimestamp: &first},
		{Name: "m", CreatedAt: "1700000000.00000", Size: 1 << 40, ContentType: "a/b", ETag: "e", PolicyIndex: 1, MetaTimestamp: &second},
		{Name: "v", CreatedAt: "1700000000.00000", Size: 1, ContentType: "a/b", ETag: "e", PolicyIndex: 1, VersionID: "null"},
		{Name: "p", CreatedAt: "1700000000.00000", Size: 1, ContentType: "a/b", ETag: "e", PolicyIndex: 0},
	}
	one, _ := appendUpdate(nil, Target{Device: "d", Partition: "0", Account: "a", Container: "c", PolicyIndex: 1}, rows[:1])
	all, _ := appendUpdate(nil, target, rows)
	return map[string][]byte{"one row": one, "all kinds of rows": all}
}

func goldenAnswers() map[string][]byte {
	answer := func(status int, headers map[string]string, body string) []byte {
		b := msgp.AppendUint(msgp.AppendArrayHeader(nil, 3), uint(status))
		return msgp.AppendBytes(msgp.AppendMapStrStr(b, headers), []byte(body))
	}
	moved := map[string]string{"location": "/.shards_a/c-1"}
	html := map[string]string{"content-type": "text/html; charset=UTF-8"}
	return map[string][]byte{
		"accepted":     answer(202, nil, ""),
		"no container": answer(404, html, "<html><h1>Not Found</h1><p>Not Found</p></html>"),
		"a wrong row":  answer(400, html, "deleted must be 0 or 1"),
		"redirected":   answer(301, moved, `{"redirects": [{"account": ".shards_a", "container": "c-1", "rows": [0]}]}`),
	}
}

func checkGolden(t *testing.T, file string, payloads map[string][]byte) {
	t.Helper()
	var list []goldenPayload
	for name, payload := range payloads {
		elements, rest, err := msgp.ReadIntfBytes(payload)
		if err != nil || len(rest) > 0 {
			t.Fatal(err, len(rest))
		}
		list = append(list, goldenPayload{name, elements, hex.EncodeToString(payload)})
	}
	slices.SortFunc(list, func(a, b goldenPayload) int { return cmp.Compare(a.Name, b.Name) })
	proof.GoldenJSON(t, goldenDir+file, list)
}

func TestGoldenPayloads(t *testing.T) {
	checkGolden(t, "container_update_request.json", goldenRequests())
	checkGolden(t, "container_update_answer.json", goldenAnswers())
	for name, want := range map[string]int{"accepted": 202, "no container": 404, "a wrong row": 400} {
		if status, location, _, err := readAnswer(goldenAnswers()[name]); status != want || location != "" || err != nil {
			t.Errorf("%s is read as %d, %q, %v", name, status, location, err)
		}
	}
}

func TestARedirectIsRead(t *testing.T) {
	status, location, body, err := readAnswer(goldenAnswers()["redirected"])
	if status != 301 || location != "/.shards_a/c-1" || err != nil {
		t.Fatal(status, location, err)
	}
	want := []Redirect{{Account: ".shards_a", Container: "c-1", Rows: []int{0}}}
	if got := newStatusError(status, location, body).Redirects; !reflect.DeepEqual(got, want) {
		t.Errorf("redirects %v, want %v", got, want)
	}
}

func TestBrokenAnswers(t *testing.T) {
	whole := msgp.AppendMapStrStr(msgp.AppendInt(msgp.AppendArrayHeader(nil, 3), 301), map[string]string{"location": "/x"})
	if status, location, _, err := readAnswer(msgp.AppendNil(whole)); status != 301 || location != "/x" || err != nil {
		t.Error(status, location, err)
	}
	for end := range whole {
		if _, _, _, err := readAnswer(whole[:end]); err == nil {
			t.Errorf("%d bytes were read", end)
		}
	}
	if _, _, _, err := readAnswer(msgp.AppendInt(msgp.AppendArrayHeader(nil, 1), 202)); err == nil {
		t.Error("an answer without headers and body was read")
	}
}
