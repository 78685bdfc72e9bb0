package segment

import "martlet/object-server/proof"

var check = proof.Check
