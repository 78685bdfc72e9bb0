package updates

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
)

// A segment of pending updates is a row of frames, usually one for each flush (on disk, never change):
//
//	0  4  "MLAP"
//	4  4  length of the payload in bytes, little-endian
//	8  4  CRC32C over the length and the payload, little-endian
//	12 .  payload: JSON array of Update
const (
	frameMagic      = "MLAP"
	frameHeaderSize = 12
	framePayloadMax = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeFrames returns the frames that hold updates, in order: one, unless that would be too long.
func encodeFrames(updates []Update) ([][]byte, error) {
	frame, err := encodeFrame(updates)
	if !errors.Is(err, errFrameLength) || len(updates) < 2 {
		return [][]byte{frame}, err
	}
	half := len(updates) / 2
	front, err := encodeFrames(updates[:half])
	if err != nil {
		return nil, err
	}
	back, err := encodeFrames(updates[half:])
	return append(front, back...), err
}

var errFrameLength = errors.New("pending updates exceed a frame")

// encodeFrame returns the frame that holds updates.
func encodeFrame(updates []Update) ([]byte, error) {
	payload, err := json.Marshal(updates)
	if err != nil {
		return nil, err
	}
	if len(payload) > framePayloadMax {
		return nil, fmt.Errorf("%w: %d bytes", errFrameLength, len(payload))
	}
	frame := make([]byte, frameHeaderSize, frameHeaderSize+len(payload))
	copy(frame, frameMagic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	frame = append(frame, payload...)
	binary.LittleEndian.PutUint32(frame[8:], frameChecksum(frame))
	return frame, nil
}

func frameChecksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[4:8], castagnoli), castagnoli, frame[frameHeaderSize:])
}

// decodeSegment returns the updates of all whole frames in content, in order, and where the last of them ends. A crash
// leaves a torn frame at the end alone, and that frame was never acknowledged; a bad frame with a whole one behind it is
// damage and counted.
func decodeSegment(content []byte) (updates []Update, damaged, end int) {
	bad, size := false, len(content)
	for len(content) > 0 {
		decoded, length := decodeFrame(content)
		if length == 0 {
			bad = true
			next := bytes.Index(content[1:], []byte(frameMagic))
			if next < 0 {
				return updates, damaged, end
			}
			content = content[1+next:]
			continue
		}
		if bad {
			damaged++
			bad = false
		}
		updates = append(updates, decoded...)
		content = content[length:]
		end = size - len(content)
	}
	return updates, damaged, end
}

// decodeFrame reads the frame at the start of content; size 0 says that there is no whole one.
func decodeFrame(content []byte) (updates []Update, size int) {
	if len(content) < frameHeaderSize || string(content[:4]) != frameMagic {
		return nil, 0
	}
	length := uint64(binary.LittleEndian.Uint32(content[4:]))
	if length > framePayloadMax || length > uint64(len(content)-frameHeaderSize) {
		return nil, 0
	}
	frame := content[:frameHeaderSize+int(length)]
	if binary.LittleEndian.Uint32(frame[8:]) != frameChecksum(frame) {
		return nil, 0
	}
	if err := json.Unmarshal(frame[frameHeaderSize:], &updates); err != nil {
		return nil, 0
	}
	return updates, len(frame)
}
