// The search puts a lesson before the reference of the package.
"use strict";
var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("lessons/") ? score + 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
