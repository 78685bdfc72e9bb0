package ring

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// A ring file is one gzip stream. Uncompressed, it starts in both versions with
//
//	 0  4  "R1NG"
//	 4  2  format version, big-endian: 1 or 2
//
// Version 1 goes on with
//
//	 6  4  length of the JSON, big-endian
//	10  .  JSON {byteorder, devs, part_shift, replica_count, version}
//	 .  .  per replica a row of 2^(32-part_shift) device ids of 2 bytes in that byte order; the last row may be short
//
// Version 2 goes on with sections, each a length of 8 bytes (big-endian) and a blob, and ends with
//
//	8+n  JSON {section name: [compressed start, start, compressed end, end, "sha256", hex digest over length and blob]}
//	8    uncompressed offset of that JSON's length
//	8    compressed offset of the same (needed only to read a section without the rest)
//
// The sections read here are swift/ring/metadata and swift/ring/devices (JSON) and swift/ring/assignments (the rows, ids
// of dev_id_bytes bytes, big-endian).

// unassigned marks a partition without a device in rows, whatever the width of the file's ids is.
const unassigned = math.MaxUint32

type metadata struct {
	ByteOrder    string    `json:"byteorder"`
	DeviceBytes  int       `json:"dev_id_bytes"`
	Devices      []*Device `json:"devs"`
	PartShift    int       `json:"part_shift"`
	ReplicaCount float64   `json:"replica_count"`
	Version      int64     `json:"version"`
	NextPower    *int      `json:"next_part_power"`
}

// Read reads a ring file. Errors wrap ErrFormat unless reading itself failed.
func Read(file io.Reader) (*Ring, error) {
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	content, err := io.ReadAll(io.LimitReader(unzipped, sizeMax+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(content) > sizeMax {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrFormat, sizeMax)
	}
	if len(content) < 6 || string(content[:4]) != "R1NG" {
		return nil, fmt.Errorf("%w: no R1NG at the start", ErrFormat)
	}
	switch version := binary.BigEndian.Uint16(content[4:]); version {
	case 1:
		return parseV1(content[6:])
	case 2:
		return parseV2(content)
	default:
		return nil, fmt.Errorf("%w: unknown version %d", ErrFormat, version)
	}
}

func parseV1(content []byte) (*Ring, error) {
	if len(content) < 4 {
		return nil, fmt.Errorf("%w: cut off", ErrFormat)
	}
	length := uint64(binary.BigEndian.Uint32(content))
	content = content[4:]
	if length > jsonMax || length > uint64(len(content)) {
		return nil, fmt.Errorf("%w: JSON of %d bytes", ErrFormat, length)
	}
	var m metadata
	if err := json.Unmarshal(content[:length], &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch m.ByteOrder {
	case "big":
		order = binary.BigEndian
	case "little", "":
	default:
		return nil, fmt.Errorf("%w: byteorder %q", ErrFormat, m.ByteOrder)
	}
	m.DeviceBytes = 2
	return assemble(1, &m, content[length:], order)
}

func parseV2(content []byte) (*Ring, error) {
	index, err := readIndex(content)
	if err != nil {
		return nil, err
	}
	var m metadata
	if err := index.readJSON(content, "swift/ring/metadata", &m); err != nil {
		return nil, err
	}
	if err := index.readJSON(content, "swift/ring/devices", &m.Devices); err != nil {
		return nil, err
	}
	assignments, err := index.read(content, "swift/ring/assignments")
	if err != nil {
		return nil, err
	}
	return assemble(2, &m, assignments, binary.BigEndian)
}

type sectionIndex map[string][]any

func readIndex(content []byte) (sectionIndex, error) {
	if len(content) < 6+16 {
		return nil, fmt.Errorf("%w: cut off", ErrFormat)
	}
	blob, err := readBlob(content, binary.BigEndian.Uint64(content[len(content)-16:]))
	if err != nil {
		return nil, err
	}
	if len(blob) > jsonMax {
		return nil, fmt.Errorf("%w: index of %d bytes", ErrFormat, len(blob))
	}
	var index sectionIndex
	if err := json.Unmarshal(blob, &index); err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrFormat, err)
	}
	return index, nil
}

// readBlob returns the blob whose length stands at offset.
func readBlob(content []byte, offset uint64) ([]byte, error) {
	if offset < 6 || offset > uint64(len(content))-8 {
		return nil, fmt.Errorf("%w: offset %d outside the file", ErrFormat, offset)
	}
	length, rest := binary.BigEndian.Uint64(content[offset:]), content[offset+8:]
	if length > uint64(len(rest)) {
		return nil, fmt.Errorf("%w: blob of %d bytes at offset %d", ErrFormat, length, offset)
	}
	return rest[:length], nil
}

// read returns the section called name, its digest verified.
func (index sectionIndex) read(content []byte, name string) ([]byte, error) {
	entry := index[name]
	if len(entry) != 6 {
		return nil, fmt.Errorf("%w: no section %s", ErrFormat, name)
	}
	start, ok := entry[1].(float64)
	if !ok || start < 0 || start > float64(len(content)) {
		return nil, fmt.Errorf("%w: section %s starts at %v", ErrFormat, name, entry[1])
	}
	blob, err := readBlob(content, uint64(start))
	if err != nil {
		return nil, err
	}
	if entry[4] != "sha256" {
		return nil, fmt.Errorf("%w: section %s has a digest of kind %v", ErrFormat, name, entry[4])
	}
	digest := sha256.Sum256(content[uint64(start) : uint64(start)+8+uint64(len(blob))])
	if entry[5] != hex.EncodeToString(digest[:]) {
		return nil, fmt.Errorf("%w: section %s does not match its digest", ErrFormat, name)
	}
	return blob, nil
}

func (index sectionIndex) readJSON(content []byte, name string, into any) error {
	blob, err := index.read(content, name)
	if err != nil {
		return err
	}
	if len(blob) > jsonMax {
		return fmt.Errorf("%w: section %s of %d bytes", ErrFormat, name, len(blob))
	}
	if err := json.NewDecoder(bytes.NewReader(blob)).Decode(into); err != nil {
		return fmt.Errorf("%w: section %s: %w", ErrFormat, name, err)
	}
	return nil
}
