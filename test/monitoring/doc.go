// Package monitoring has the tests of manifests/monitoring: Prometheus' own parsers read the rules and the expressions of
// the dashboard, and these use the metrics of testdata/served.txt with their labels. That the scheduler serves these
// is tested in cmd/scheduler. It is a module of its own, because the scheduler needs nothing of Prometheus' server.
package monitoring
