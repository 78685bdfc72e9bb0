package server

import (
	"net/http"
	"net/url"
	"strconv"

	"martlet/object-server/server/relink"
)

// takeStep handles a POST with ?step=relink or cleanup, and any number of policy=N and device=NAME.
func (s *Server) takeStep(x *exchange) (any, error) {
	query, _ := url.ParseQuery(x.in.Query) // pairs that are malformed are left out
	step := query.Get("step")
	if step != relink.StepRelink && step != relink.StepCleanup {
		return nil, fail(http.StatusBadRequest, "The step is neither relink nor cleanup.")
	}
	var policies []int
	for _, value := range query["policy"] {
		policy, err := strconv.Atoi(value)
		if err != nil || !s.config.Policies[policy] {
			return nil, fail(http.StatusBadRequest, "No policy with index %q.", value)
		}
		policies = append(policies, policy)
	}
	return s.relinker.Take(step, policies, query["device"])
}

// Relinker raises the part power of the devices of this server.
func (s *Server) Relinker() *relink.Relinker { return s.relinker }
