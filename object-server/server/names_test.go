package server

import "martlet/object-server/server/message"

// Names of request headers.
var (
	isReplicationHeader = message.Replication.Name()
	ifDeleteAt          = message.IfDeleteAt.Name()
	restoreHeader       = message.VersionRestore.Name()
	hideHeader          = message.VersionHide.Name()
)
