package updates

import (
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// updateName is the request that carries rows over the grid; doc/formats/grid-messages.md has its payload.
const updateName = "container.update"

// appendUpdate appends the payload of an update. It returns false if the target cannot be written that way.
func appendUpdate(b []byte, target Target, rows []Row) ([]byte, bool) {
	partition, err := strconv.ParseUint(target.Partition, 10, 32)
	if err != nil || target.PolicyIndex < 0 {
		return b, false
	}
	b = msgp.AppendArrayHeader(b, 8)
	b = msgp.AppendString(b, target.Device)
	b = msgp.AppendUint64(b, partition)
	b = msgp.AppendString(b, target.Account)
	b = msgp.AppendString(b, target.Container)
	b = msgp.AppendInt(b, target.PolicyIndex)
	b = msgp.AppendString(b, newest(rows))
	b = msgp.AppendArrayHeader(b, uint32(len(rows)))
	for i := range rows {
		b = appendRow(b, &rows[i], target.PolicyIndex)
	}
	return msgp.AppendBool(b, true), true // redirects to shards are followed
}

// newest returns the time of the newest row.
func newest(rows []Row) (timestamp string) {
	for i := range rows {
		timestamp = max(timestamp, rows[i].CreatedAt) // of fixed width, so that text order is time order
	}
	return timestamp
}

// appendRow appends a row without the elements at its end that have their usual value.
func appendRow(b []byte, row *Row, policy int) []byte {
	count := uint32(6)
	switch {
	case row.PolicyIndex != policy:
		count = 10
	case row.VersionID != "":
		count = 9
	case row.MetaTimestamp != nil:
		count = 8
	case row.ContentTypeTimestamp != nil:
		count = 7
	}
	b = msgp.AppendArrayHeader(b, count)
	b = msgp.AppendString(b, row.Name)
	b = msgp.AppendString(b, row.CreatedAt)
	b = msgp.AppendInt64(b, row.Size)
	b = msgp.AppendString(b, row.ContentType)
	b = msgp.AppendString(b, row.ETag)
	b = msgp.AppendInt(b, row.Deleted)
	if count > 6 {
		b = appendOptional(b, row.ContentTypeTimestamp)
	}
	if count > 7 {
		b = appendOptional(b, row.MetaTimestamp)
	}
	if count > 8 {
		var version *string
		if row.VersionID != "" {
			version = &row.VersionID
		}
		b = appendOptional(b, version)
	}
	if count > 9 {
		b = msgp.AppendInt(b, row.PolicyIndex)
	}
	return b
}

func appendOptional(b []byte, text *string) []byte {
	if text == nil {
		return msgp.AppendNil(b)
	}
	return msgp.AppendString(b, *text)
}

// readAnswer reads the answer to an update: its status, the location that a redirect names, and its body.
func readAnswer(b []byte) (status int, location string, body []byte, err error) {
	count, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return 0, "", nil, err
	}
	if count < 3 {
		return 0, "", nil, msgp.ArrayError{Wanted: 3, Got: count}
	}
	if status, b, err = msgp.ReadIntBytes(b); err != nil {
		return 0, "", nil, err
	}
	headers, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return 0, "", nil, err
	}
	for range headers {
		var name, value string
		if name, b, err = msgp.ReadStringBytes(b); err != nil {
			return 0, "", nil, err
		}
		if value, b, err = msgp.ReadStringBytes(b); err != nil {
			return 0, "", nil, err
		}
		if name == "location" {
			location = value
		}
	}
	if msgp.NextType(b) == msgp.BinType {
		body, _, err = msgp.ReadBytesZC(b)
	}
	return status, location, body, err
}
