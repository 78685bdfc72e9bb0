package format

// markerName is a stored header of a DELETE MARKER without an id, if clients see it.
const markerName = "X-Object-Sysmeta-Delete-Marker"

// MarkNull makes the metadata those of a delete marker without an id that clients see.
// One that they do not see only says that what is older is not current.
func (m *Metadata) MarkNull() { m.System = Headers{markerName: "null"} }

// MarksNull tells whether MarkNull made the metadata.
func (m *Metadata) MarksNull() bool { return m.System[markerName] != "" }

// movedName is a stored header of the TOMBSTONE of a version that was moved to another policy.
const movedName = "X-Object-Sysmeta-Moved"

// MarkMoved makes the metadata those of the removal of a version that is in another policy now.
// Who moves versions must not take that for a removal by a client.
func (m *Metadata) MarkMoved() { m.System = Headers{movedName: "true"} }

// IsMoved tells whether MarkMoved made the metadata.
func (m *Metadata) IsMoved() bool { return m.System[movedName] != "" }
