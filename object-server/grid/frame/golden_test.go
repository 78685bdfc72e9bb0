package frame

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"martlet/object-server/proof"
)

const goldenDir = "../../../test/golden/grid/"

// goldenFrame is a frame, the elements of its array, and its bytes.
type goldenFrame struct {
	Name  string `json:"name"`
	Frame []any  `json:"frame"`
	Hex   string `json:"hex"`
}

type goldenMessage struct {
	Name     string   `json:"name"`
	Frames   []string `json:"frames"`
	Checksum bool     `json:"checksum"`
	Hex      string   `json:"hex"`
}

type goldenRefusal struct {
	Name string `json:"name"`
	Hex  string `json:"hex"`
}

func hexOf(b []byte) map[string]any { return map[string]any{"hex": hex.EncodeToString(b)} }

func counting(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// goldenCase is a frame as the encoder writes it.
type goldenCase struct {
	name     string
	elements []any
	encoded  []byte
}

func handshakeCases() []goldenCase {
	nonce, proof, id, id2 := counting(0, 32), counting(0x80, 32), counting(0x40, 8), counting(0x50, 8)
	all := Options{"proxy-7", true, 65536, 16, 1 << 20, 4, 65536}
	allMap := map[string]any{
		"checksum": true, "max_bytes": 1 << 20, "max_payload": 65536, "max_requests": 16, "max_streams": 4,
		"name": "proxy-7", "window": 65536,
	}
	none := map[string]any{}
	named := Defaults()
	named.Name = "knot-ä"
	return []goldenCase{
		{"challenge", []any{1, hexOf(nonce), []any{hexOf(id), hexOf(id2)}, allMap}, AppendChallenge(nil, nonce, [][]byte{id, id2}, all)},
		{"challenge without secret", []any{1, hexOf(nonce), []any{}, none}, AppendChallenge(nil, nonce, nil, Defaults())},
		{"proof", []any{2, hexOf(nonce), hexOf(id), hexOf(proof), allMap}, AppendProof(nil, nonce, id, proof, all)},
		{
			"proof without secret", []any{2, hexOf(nonce), hexOf(nil), hexOf(nil), map[string]any{"name": "knot-ä"}},
			AppendProof(nil, nonce, nil, nil, named),
		},
		{"welcome", []any{3, hexOf(proof)}, AppendWelcome(nil, proof)},
		{"welcome without secret", []any{3, hexOf(nil)}, AppendWelcome(nil, nil)},
		{"refused", []any{4, "the proof is wrong"}, AppendReason(nil, Refused, "the proof is wrong")},
	}
}

func requestCases() []goldenCase {
	long := strings.Repeat("é", ReasonMax/2)
	return []goldenCase{
		{"request", []any{10, 1, "object.head", 5000, 0, hexOf([]byte("payload"))}, AppendRequest(nil, 1, "object.head", 5000, 0, []byte("payload"))},
		{"request, resent, no payload", []any{10, 127, "a", 0, 1, hexOf(nil)}, AppendRequest(nil, 127, "a", 0, Resent, nil)},
		{
			"request, longest name, wide numbers",
			[]any{10, uint64(1) << 32, strings.Repeat("n", NameMax), uint64(math.MaxUint64), 0, hexOf(counting(0, 256))},
			AppendRequest(nil, 1<<32, strings.Repeat("n", NameMax), math.MaxUint64, 0, counting(0, 256)),
		},
		{"answer", []any{11, 128, hexOf([]byte{0xc0})}, AppendAnswer(nil, 128, []byte{0xc0})},
		{"answer of 70000 bytes", []any{11, 255, hexOf(make([]byte, 70000))}, AppendAnswer(nil, 255, make([]byte, 70000))},
		{"error", []any{12, 256, 7, "the disk is full"}, AppendError(nil, 256, 7, "the disk is full")},
		{"error, longest reason", []any{12, 65535, 1, long}, AppendError(nil, 65535, 1, long+"more")},
		{"error without reason", []any{12, 2, 8, ""}, AppendError(nil, 2, 8, "")},
		{"cancel", []any{13, 65536}, AppendNumber(nil, Cancel, 65536)},
		{"open", []any{20, 3, "container.list", 30000, 0, 262144, hexOf([]byte("first"))}, AppendOpen(nil, 3, "container.list", 30000, 0, 262144, []byte("first"))},
		{"data", []any{21, 3, hexOf([]byte("some data"))}, AppendData(nil, 3, []byte("some data"))},
		{"data, empty", []any{21, 4, hexOf(nil)}, AppendData(nil, 4, nil)},
		{"credit", []any{22, 3, 65536}, AppendCredit(nil, 3, 65536)},
		{"end", []any{23, 3}, AppendNumber(nil, End, 3)},
		{"ping", []any{30, 0}, AppendNumber(nil, Ping, 0)},
		{"pong", []any{31, uint64(math.MaxUint64)}, AppendNumber(nil, Pong, math.MaxUint64)},
		{"goaway", []any{32, "restart"}, AppendReason(nil, GoAway, "restart")},
	}
}

func goldenCases() []goldenCase { return append(handshakeCases(), requestCases()...) }

// raw wraps an array of MessagePack into a frame of a version.
func raw(version byte, array []byte) []byte {
	b := append([]byte{0, 0, 0, 0, version}, array...)
	return finish(b, 0)
}

// variants are frames that are read as the frame of the first column, and not written.
func variants() map[string][]goldenFrame {
	wide := msgp.AppendArrayHeader(nil, 3)
	wide = append(wide, 0xcd, 0, 11)                                      // uint16
	wide = append(wide, 0xcf, 0, 0, 0, 0, 0, 0, 0, 128)                   // uint64
	wide = append(wide, 0xc6, 0, 0, 0, 1, 0xc0)                           // bin32
	signed := append([]byte{0x93, 0xd0, 11, 0xd1, 0, 128, 0xc4, 1}, 0xc0) // int8, int16
	more := append([]byte{0x95, 11, 0xcc, 128, 0xc4, 1, 0xc0}, 0xc0, 0x81, 0xa1, 'k', 0x90)
	return map[string][]goldenFrame{"answer": {
		{"wide integers", []any{11, 128, hexOf([]byte{0xc0})}, hex.EncodeToString(raw(1, wide))},
		{"signed integers", []any{11, 128, hexOf([]byte{0xc0})}, hex.EncodeToString(raw(1, signed))},
		{"more elements", []any{11, 128, hexOf([]byte{0xc0}), nil, map[string]any{"k": []any{}}}, hex.EncodeToString(raw(1, more))},
	}}
}

// refusals are bytes that end a connection.
func refusals() []goldenRefusal {
	list := []struct {
		name string
		b    []byte
	}{
		{"only a length", []byte{0, 0, 0, 1}},
		{"a length of zero", []byte{0, 0, 0, 0, 1}},
		{"a length beyond the message", []byte{0, 0, 0, 9, 1, 0x92, 13, 1}},
		{"version 2", raw(2, []byte{0x92, 13, 1})},
		{"no array", raw(1, []byte{13})},
		{"an empty array", raw(1, []byte{0x90})},
		{"a type that is no integer", raw(1, []byte{0x92, 0xa1, 'x', 1})},
		{"a negative id", raw(1, []byte{0x92, 13, 0xff})},
		{"an id that is missing", raw(1, []byte{0x91, 13})},
		{"an id that is cut off", raw(1, []byte{0x92, 13, 0xcd, 1})},
		{"a payload that is a string", raw(1, []byte{0x93, 11, 1, 0xa1, 'x'})},
		{"a name that is bytes", raw(1, []byte{0x96, 10, 1, 0xc4, 1, 'x', 0, 0, 0xc4, 0})},
		{"a name that is not UTF-8", raw(1, []byte{0x96, 10, 1, 0xa1, 0xff, 0, 0, 0xc4, 0})},
		{"a name of 65 bytes", AppendRequest(nil, 1, strings.Repeat("n", NameMax+1), 0, 0, nil)},
		{"data of 65537 bytes", AppendData(nil, 1, make([]byte, DataMax+1))},
		{"a nonce of 31 bytes", AppendProof(nil, make([]byte, 31), nil, nil, Defaults())},
		{"a proof of 31 bytes", AppendWelcome(nil, make([]byte, 31))},
		{"a max_payload over the limit", AppendProof(nil, make([]byte, 32), nil, nil, Options{MaxPayload: PayloadMax + 1})},
		{"a max_payload of 0", proofWith(func(o *Options) { o.MaxPayload = 0 })},
		{"a max_bytes of 2^63", proofWith(func(o *Options) { o.MaxBytes = 1 << 63 })},
		{"an option window of 2^63", proofWith(func(o *Options) { o.Window = 1 << 63 })},
		{"an OPEN with a window of 2^63", AppendOpen(nil, 1, "a", 0, 0, 1<<63, nil)},
		{"three key ids", AppendChallenge(nil, make([]byte, 32), [][]byte{make([]byte, 8), make([]byte, 8), make([]byte, 8)}, Defaults())},
		{"a byte behind the array", raw(1, []byte{0x92, 13, 1, 0xc0})},
		{"an added element that is cut off", raw(1, []byte{0x93, 13, 1, 0xcd, 1})},
		{"an unknown type whose elements are cut off", raw(1, []byte{0x92, 99, 0xcd, 1})},
	}
	var refused []goldenRefusal
	for _, one := range list {
		refused = append(refused, goldenRefusal{one.name, hex.EncodeToString(one.b)})
	}
	return refused
}

// proofWith returns a PROOF with changed options.
func proofWith(change func(o *Options)) []byte {
	o := Defaults()
	change(&o)
	return AppendProof(nil, make([]byte, NonceSize), nil, nil, o)
}

func goldenMessages() []goldenMessage {
	ping, answer := AppendNumber(nil, Ping, 7), AppendAnswer(nil, 1, []byte("yes"))
	var list []goldenMessage
	for _, one := range []struct {
		name     string
		frames   [][]byte
		checksum bool
	}{
		{"one frame", [][]byte{ping}, false},
		{"one frame with checksum", [][]byte{ping}, true},
		{"three frames", [][]byte{ping, answer, AppendNumber(nil, Cancel, 3)}, false},
		{"three frames with checksum", [][]byte{ping, answer, AppendNumber(nil, Cancel, 3)}, true},
	} {
		m := goldenMessage{Name: one.name, Checksum: one.checksum}
		var b []byte
		for _, f := range one.frames {
			m.Frames = append(m.Frames, hex.EncodeToString(f))
			b = append(b, f...)
		}
		if one.checksum {
			b = AppendChecksum(b, 0)
		}
		m.Hex = hex.EncodeToString(b)
		list = append(list, m)
	}
	return list
}

func TestGoldenFrames(t *testing.T) {
	var list []goldenFrame
	for _, c := range goldenCases() {
		list = append(list, goldenFrame{c.name, c.elements, hex.EncodeToString(c.encoded)})
	}
	proof.GoldenJSON(t, goldenDir+"frames.json", list)
	proof.GoldenJSON(t, goldenDir+"messages.json", goldenMessages())
	proof.GoldenJSON(t, goldenDir+"variants.json", variants()["answer"])
	proof.GoldenJSON(t, goldenDir+"malformed.json", refusals())
}

// plain turns what a general decoder read into the form of the golden files.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return hexOf(v)
	case int64:
		return uint64(v)
	case int:
		return uint64(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	}
	return v
}

func TestGoldenFramesAreWhatAGeneralDecoderReads(t *testing.T) {
	for _, c := range goldenCases() {
		value, rest, err := msgp.ReadIntfBytes(c.encoded[prefixSize+1:])
		if err != nil || len(rest) > 0 || !reflect.DeepEqual(plain(value), plain(c.elements)) {
			t.Errorf("%s: %v (%v)\nwant %v", c.name, plain(value), err, plain(c.elements))
		}
	}
}

func TestGoldenFramesAreReadAsWritten(t *testing.T) {
	for _, c := range goldenCases() {
		var f Frame
		rest, err := f.Decode(append(bytes.Clone(c.encoded), "rest"...))
		if err != nil || string(rest) != "rest" || !bytes.Equal(encode(&f), c.encoded) {
			t.Errorf("%s: %+v, rest %q, %v", c.name, f, rest, err)
		}
	}
	for _, v := range variants()["answer"] {
		var f Frame
		b, _ := hex.DecodeString(v.Hex)
		if _, err := f.Decode(b); err != nil || !bytes.Equal(encode(&f), AppendAnswer(nil, 128, []byte{0xc0})) {
			t.Errorf("%s: %+v, %v", v.Name, f, err)
		}
	}
}

func TestMalformedFramesAreRefused(t *testing.T) {
	for _, r := range refusals() {
		var f Frame
		b, _ := hex.DecodeString(r.Hex)
		if _, err := f.Decode(b); err == nil {
			t.Errorf("%s: %+v", r.Name, f)
		}
	}
}

// encode writes a decoded frame again.
func encode(f *Frame) []byte {
	h := &f.Handshake
	switch f.Type {
	case Challenge:
		return AppendChallenge(nil, h.Nonce, h.KeyIDs, h.Options)
	case Proof:
		return AppendProof(nil, h.Nonce, bytes.Join(h.KeyIDs, nil), h.Proof, h.Options)
	case Welcome:
		return AppendWelcome(nil, h.Proof)
	case Request:
		return AppendRequest(nil, f.ID, string(f.Name), f.Deadline, f.Flags, f.Payload)
	case Open:
		return AppendOpen(nil, f.ID, string(f.Name), f.Deadline, f.Flags, f.Window, f.Payload)
	case Answer:
		return AppendAnswer(nil, f.ID, f.Payload)
	case Data:
		return AppendData(nil, f.ID, f.Payload)
	case Error:
		return AppendError(nil, f.ID, f.Code, string(f.Reason))
	case Credit:
		return AppendCredit(nil, f.ID, f.Window)
	case Refused, GoAway:
		return AppendReason(nil, f.Type, string(f.Reason))
	case Cancel, End, Ping, Pong:
		return AppendNumber(nil, f.Type, f.ID)
	}
	return nil
}
