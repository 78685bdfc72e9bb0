package recon

import (
	"encoding/json"
	"testing"

	"martlet/object-server/reconcache"
)

// The figures that a background program has written are shown under the paths that swift-recon asks for; others are null.
func TestFiguresOfBackgroundPrograms(t *testing.T) {
	cache := t.TempDir()
	r := New("test", t.TempDir(), t.TempDir(), cache, nil)
	written := map[string]map[string]any{
		"object": {"object_replication_last": 12.5, "replication_stats": map[string]int{"in_sync": 3}, "other": 1, "expired_last_pass": 4,
			"object_lifecycle": map[string]int{"expired": 5}},
		"account": {"account_audits_passed": 7},
		"drive":   {"drive_audit_errors": 2},
	}
	for kind, figures := range written {
		if err := reconcache.Update(cache, kind, figures); err != nil {
			t.Fatal(err)
		}
	}
	replication := `{"object_replication_last":12.5,"object_replication_time":null,"replication_last":null,` +
		`"replication_stats":{"in_sync":3},"replication_time":null}`
	for path, want := range map[string]string{
		"replication": replication, "replication/object": replication,
		"replication/account": `{"replication_last":null,"replication_stats":null,"replication_time":null}`,
		"lifecycle/object":    `{"object_lifecycle":{"expired":5}}`,
		"expirer/object":      `{"expired_last_pass":4,"object_expiration_pass":null}`,
		"auditor/account": `{"account_auditor_pass_completed":null,"account_audits_failed":null,"account_audits_passed":7,` +
			`"account_audits_since":null}`,
		"driveaudit": `{"drive_audit_errors":2}`,
	} {
		figures, err := r.Figures(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(figures); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	if figures, err := r.Figures("replication/proxy"); figures != nil || err != nil {
		t.Errorf("an unknown path has %v, %v", figures, err)
	}
}
