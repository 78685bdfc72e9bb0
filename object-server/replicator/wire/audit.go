package wire

//go:generate go tool msgp -file audit.go -o audit_gen.go -io=false -tests=false

// Names of the requests of auditors.
const (
	NameAuditState   = "audit.state"
	NameAuditExamine = "audit.examine"
)

// AuditState is what a server says of a partition before an auditor reads it. The request is a Partition.
type AuditState struct {
	IsThere  bool     `msg:"there"` // false: the device has no such partition
	Power    uint8    `msg:"power"` // the part power of its bundle, 0 if that is not known
	Position Position `msg:"position"`
}

// AuditRequest asks a server to read a partition itself, in which an auditor has found damage.
type AuditRequest struct {
	Partition      Partition `msg:"partition"`
	BytesPerSecond int64     `msg:"bytes_per_second"` // 0: no limit
}

// AuditFound is what the server has found.
type AuditFound struct {
	Damages []string `msg:"damages"` // each a line for people
}
