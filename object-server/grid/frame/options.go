package frame

import (
	"fmt"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// OptionNameMax bounds Options.Name, in bytes.
const OptionNameMax = 256

// Options are the limits that a side names in the handshake. They bind the other side.
type Options struct {
	Name        string // who sends them, for logs
	Checksum    bool   // each message shall have a checksum
	MaxPayload  uint64 // largest payload of a REQUEST, OPEN or ANSWER to the sender, bytes
	MaxRequests uint64 // requests to the sender in flight at a time
	MaxBytes    uint64 // payload bytes of these requests in all
	MaxStreams  uint64 // streams to the sender open at a time
	Window      uint64 // bytes of DATA that the sender accepts on a new stream that the other side opened
}

// Defaults returns what holds for options that are absent.
func Defaults() Options {
	return Options{
		MaxPayload: 1 << 20, MaxRequests: 1024, MaxBytes: 64 << 20, MaxStreams: 128, Window: 256 << 10,
	}
}

// number is an option that is an integer, and its key on the wire.
type number struct {
	key   string
	value *uint64
}

// numbers returns the options that are integers, sorted by key.
func (o *Options) numbers() [5]number {
	return [...]number{
		{"max_bytes", &o.MaxBytes}, {"max_payload", &o.MaxPayload}, {"max_requests", &o.MaxRequests},
		{"max_streams", &o.MaxStreams}, {"window", &o.Window},
	}
}

// Check says what is wrong with the options.
func (o Options) Check() error {
	if o.MaxPayload < 1 || o.MaxPayload > PayloadMax {
		return fmt.Errorf("max_payload is %d, not from 1 to %d", o.MaxPayload, PayloadMax)
	}
	if len(o.Name) > OptionNameMax {
		return fmt.Errorf("the name has %d bytes, the most is %d", len(o.Name), OptionNameMax)
	}
	for _, n := range o.numbers() {
		if *n.value > math.MaxInt64 {
			return fmt.Errorf("%s is %d", n.key, *n.value)
		}
	}
	return nil
}

// append adds the map of what differs from the defaults, sorted by key.
func (o Options) append(b []byte) []byte {
	defaults := Defaults()
	own, without := o.numbers(), defaults.numbers()
	var changed uint32
	if o.Checksum {
		changed++
	}
	if o.Name != "" {
		changed++
	}
	for i := range own {
		if *own[i].value != *without[i].value {
			changed++
		}
	}
	b = msgp.AppendMapHeader(b, changed)
	if o.Checksum {
		b = msgp.AppendBool(msgp.AppendString(b, "checksum"), true)
	}
	for i := range own {
		if own[i].key == "window" && o.Name != "" { // "name" sorts before "window"
			b = msgp.AppendString(msgp.AppendString(b, "name"), o.Name)
		}
		if *own[i].value != *without[i].value {
			b = msgp.AppendUint64(msgp.AppendString(b, own[i].key), *own[i].value)
		}
	}
	return b
}

// decode reads the map. Keys that it does not know are skipped.
func (o *Options) decode(r *reader) {
	if !r.next() {
		return
	}
	*o = Defaults()
	var pairs uint32
	pairs, r.b, r.err = msgp.ReadMapHeaderBytes(r.b)
	for ; pairs > 0 && r.err == nil; pairs-- {
		o.decodePair(r)
	}
	if r.err == nil {
		r.err = o.Check()
	}
}

func (o *Options) decodePair(r *reader) {
	var key []byte
	if key, r.b, r.err = msgp.ReadStringZC(r.b); r.err != nil {
		return
	}
	value := reader{b: r.b, left: 1}
	switch string(key) {
	case "name":
		o.Name = string(value.text(OptionNameMax))
	case "checksum":
		o.Checksum, value.b, value.err = msgp.ReadBoolBytes(value.b)
	default:
		o.decodeNumber(string(key), &value)
	}
	r.b = value.b
	if value.err != nil {
		r.err = fmt.Errorf("option %q: %w", key, value.err)
	}
}

func (o *Options) decodeNumber(key string, value *reader) {
	for _, n := range o.numbers() {
		if n.key == key {
			*n.value = value.number()
			return
		}
	}
	value.b, value.err = msgp.Skip(value.b)
}
