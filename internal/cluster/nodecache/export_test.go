package nodecache

// AnswerBytes is the memory of an answer without its results.
const AnswerBytes = answerBytes
