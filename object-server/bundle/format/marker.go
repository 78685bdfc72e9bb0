package format

// markerName is a stored header of a DELETE MARKER without an id, if clients see it.
const markerName = "X-Object-Sysmeta-Delete-Marker"

// MarkNull makes the metadata those of a delete marker without an id that clients see.
// One that they do not see only says that what is older is not current.
func (m *Metadata) MarkNull() { m.System = Headers{markerName: "null"} }

// MarksNull tells whether MarkNull made the metadata.
func (m *Metadata) MarksNull() bool { return m.System[markerName] != "" }
