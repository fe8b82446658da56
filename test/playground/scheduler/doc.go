// Package scheduler runs a kube-scheduler binary as a child process: the playground's scheduler, and the one that
// integration tests stop, kill and start again. It knows the command line and the configuration file of
// kube-scheduler and nothing about its plugins, so it can run any build, including one without this project's plugin.
package scheduler
