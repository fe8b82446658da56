// Package timing wraps a scheduler plugin so that its own time can be measured
// exactly. kube-scheduler's metrics of single plugins are samples, of about every
// tenth pod.
//
// A wrapped plugin implements the same interfaces as the plugin inside, so that the
// scheduler treats it the same. The two readings of the clock cost a call about a
// tenth of a microsecond, which counts against the faster plugin.
package timing
